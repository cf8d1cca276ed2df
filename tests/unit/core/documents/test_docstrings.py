"""Docstrings below the fields of models become their descriptions, in schemas and for readers of fields."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kajitori.core.documents.docstrings import Described, describe_fields, field_descriptions


class Disk(Described, BaseModel):
    size_bytes: int = Field(default=0, alias="sizeBytes")
    """The size of the disk,

    without the parts that it keeps back."""
    kind: str = Field(default="", description="What the disk is made of.")
    """A docstring gives way to a description in the field."""
    bare: str = ""


class Machine(Described, BaseModel):
    name: str
    """The name of the machine."""
    disk: Disk = Disk()
    """The disk it starts from."""


class Server(Machine):
    rack: str = ""
    """The rack of the server."""
    name: str
    """The name of the server."""


class Undescribed(Server):
    pass


def test_fields_are_described_by_the_docstrings_below_them() -> None:
    properties = Disk.model_json_schema(by_alias=True)["properties"]

    assert properties["sizeBytes"]["description"] == "The size of the disk,\n\nwithout the parts that it keeps back."
    assert properties["kind"]["description"] == "What the disk is made of."
    assert "description" not in properties["bare"]


def test_fields_are_described_where_the_schema_uses_their_own_names() -> None:
    assert "description" in Disk.model_json_schema(by_alias=False)["properties"]["size_bytes"]


def test_fields_inside_other_models_are_described() -> None:
    schema = Machine.model_json_schema()

    assert schema["properties"]["disk"]["description"] == "The disk it starts from."
    assert schema["$defs"]["Disk"]["properties"]["kind"]["description"] == "What the disk is made of."


def test_inherited_fields_keep_their_descriptions_unless_declared_again() -> None:
    assert field_descriptions(Undescribed) == {
        "name": "The name of the server.",
        "disk": "The disk it starts from.",
        "rack": "The rack of the server.",
    }


def test_a_model_without_readable_source_has_no_descriptions() -> None:
    made = type("Made", (Machine,), {"__module__": "builtins"})

    assert field_descriptions(made) == field_descriptions(Machine)  # its own class has none


def test_readers_of_fields_see_the_descriptions_after_they_were_written() -> None:
    describe_fields(Machine)

    assert Machine.model_fields["name"].description == "The name of the machine."
    assert Undescribed.model_fields["rack"].description == "The rack of the server."
    assert Machine.model_json_schema()["properties"]["name"]["description"] == "The name of the machine."
