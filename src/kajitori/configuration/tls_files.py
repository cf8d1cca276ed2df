"""Certificates in files that are replaced while a process runs: a server's own, and the authorities that clients trust.

A renewed certificate is used for new connections, and open ones continue. If a new file cannot be used, that is logged
and the old one stays in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kajitori.errors import InvalidInput

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Interval at which a server looks whether its certificate was renewed."""

Stamps = tuple[tuple[int, int, int], ...]


class ServingCertificate:
    """A server's certificate and key, and the TLS context that uses them."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raise InvalidInput if the files (PEM) cannot be used."""
        self._certificate = certificate
        self._key = key
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._stamps = _stamps_of(certificate, key)
        try:
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            message = f"can't be used: {getattr(error, 'reason', None) or error}"
            hint = "give PEM files of a certificate and its key"
            raise InvalidInput.one("--tls-cert", message, value=str(certificate), hint=hint) from error

    @classmethod
    def of(cls, certificate: Path | None, key: Path | None) -> ServingCertificate | None:
        """Return the certificate in these files; None without files, for plain HTTP."""
        return cls(certificate, key) if certificate is not None and key is not None else None

    def refresh(self) -> bool:
        """Use the files' present content if they changed; return whether they did."""
        stamps = _stamps_of(self._certificate, self._key)
        if stamps == self._stamps:
            return False
        try:
            # A certificate and key that do not match would break the context in use, so they are tried in another one.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self._certificate, self._key)
            self.context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "reason", None) or error
            log.warning("the new certificate %s can't be used, the one before stays: %s", self._certificate, why)
            return False
        self._stamps = stamps
        log.info("the renewed certificate %s is used from now on", self._certificate)
        return True


class TrustedAuthorities:
    """Authorities that a client trusts, from a file (PEM) that may change."""

    def __init__(self, option: str, path: Path) -> None:
        """Raise InvalidInput, which names the option, if the file holds no certificates."""
        self._path = path
        self._stamps = _stamps_of(path)
        try:
            self._context = ssl.create_default_context(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput.one(option, "holds no certificates", value=str(path), hint="give a PEM file") from error

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for the file's present content; the last valid one if it has become faulty."""
        stamps = _stamps_of(self._path)
        if stamps != self._stamps:
            try:
                self._context = ssl.create_default_context(cafile=self._path)
                self._stamps = stamps
            except (OSError, ssl.SSLError) as error:
                log.warning("%s holds no certificates any more, those before are trusted: %s", self._path, error)
        return self._context


class FileText:
    """The text of a small file, read again when it changes."""

    def __init__(self, option: str, path: Path) -> None:
        """Raise InvalidInput, which names the option, if the file cannot be read."""
        self._path = path
        try:
            self._stamps, self.text = _stamps_of(path), path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput.one(option, f"cannot be read: {error}", value=str(path)) from error

    def refresh(self) -> bool:
        """Read the file again if it changed; return whether it did."""
        stamps = _stamps_of(self._path)
        if stamps == self._stamps:
            return False
        with contextlib.suppress(OSError, UnicodeDecodeError):
            self._stamps, self.text = stamps, self._path.read_text()
            return True
        return False


@asynccontextmanager
async def followed(certificate: ServingCertificate | None) -> AsyncIterator[None]:
    """Use renewed files of a certificate, if there is one, while the context lasts."""
    if certificate is None:
        yield
        return
    async with following(certificate.refresh):
        yield


@asynccontextmanager
async def following(look: Callable[[], object]) -> AsyncIterator[None]:
    """Call `look` every few seconds while the context lasts, in a thread: a file system may hang."""

    async def work() -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(look)

    task = asyncio.create_task(work(), name="files")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _stamps_of(*paths: Path) -> Stamps:
    """Return a value that identifies the present state of files; missing files have a state, too."""
    found = []
    for path in paths:
        try:
            at = path.stat()
            found.append((at.st_mtime_ns, at.st_size, at.st_ino))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
