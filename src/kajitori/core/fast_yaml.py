"""The parser of YAML that is there: libyaml's where PyYAML was built with it, ten times as fast as Python's own."""

from __future__ import annotations

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
