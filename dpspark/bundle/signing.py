"""Signatures of releases: a file beside the manifest, over the manifest's bytes, which hold the hashes of all tables.

Ed25519 (public key for everyone) needs the `cryptography` package; HMAC-SHA256 (one shared secret) needs nothing. The kind of
key decides which of them is checked, never what a signature says of itself.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from dpspark.bundle.files import MANIFEST, SIGNATURE, read_json
from dpspark.bundle.storage import Place, StorePath
from dpspark.errors import ConfError, OutputError

FORMAT = 1
PREFIX = b"dpspark release 1\n"  # what is signed is a release, and nothing else that the key may be used for
LARGEST_KEY = 1 << 16
LEAST_SECRET = 32
HEX = re.compile(rb"[0-9a-fA-F]+")

Algorithm = Literal["ed25519", "hmac-sha256"]


@dataclass(frozen=True)
class Key:
    """A key, never shown. `private` is None if it can only check."""

    algorithm: Algorithm
    secret: bytes = field(default=b"", repr=False)
    private: Any = field(default=None, repr=False)
    public: Any = field(default=None, repr=False)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of a public key; None for a secret, which it would help to guess."""
        return None if self.public is None else hashlib.sha256(_raw(self.public)).hexdigest()[:16]

    def sign(self, message: bytes) -> bytes:
        if self.algorithm == "hmac-sha256":
            return hmac.digest(self.secret, PREFIX + message, "sha256")
        return self.private.sign(PREFIX + message)

    def accepts(self, message: bytes, signature: bytes) -> bool:
        if self.algorithm == "hmac-sha256":
            return hmac.compare_digest(self.sign(message), signature)
        from cryptography.exceptions import InvalidSignature

        try:
            self.public.verify(signature, PREFIX + message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Signature:
    """The signature of a release, as its file has it."""

    algorithm: str
    value: bytes
    key: str | None

    @property
    def shown(self) -> str:
        return self.algorithm + (f", key {self.key}" if self.key else "")


def find_key(option: str | None, variable: str, signing: bool) -> Key | None:
    """Read the key from a file, else from an environment variable that holds the key itself (PEM or hexadecimal digits)."""
    if option is not None:
        return read_key(option, signing)
    text = os.environ.get(variable)
    if not text:
        return None
    content = text.strip().encode("utf-8", "surrogateescape")
    if not (content.startswith(b"-----") or HEX.fullmatch(content)):
        raise ConfError(
            f"{variable}: expected the key itself, as PEM text or hexadecimal digits. A file goes to --key."
        )
    return parse_key(content, variable, signing)


def read_key(path: str, signing: bool) -> Key:
    """Read a key file; refuse a secret that others can read."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(LARGEST_KEY + 1) if stat.S_ISREG(mode) else b""
    except (OSError, ValueError) as error:
        raise ConfError(f"key {path!r}: {getattr(error, 'strerror', None) or 'not a path'}.") from None
    if not stat.S_ISREG(mode) or len(content) > LARGEST_KEY:
        raise ConfError(f"key {path!r}: not a key file.")
    if b"PUBLIC KEY" not in content and mode & 0o077:
        raise ConfError(
            f"key {path!r}: others can read it (mode {stat.S_IMODE(mode):04o}), so it is no secret.\n"
            f"Make a new key, or if no one did: chmod 600 {path}"
        )
    return parse_key(content, f"key {path!r}", signing)


def parse_key(content: bytes, what: str, signing: bool) -> Key:
    """Parse a key: PEM is Ed25519; hexadecimal digits, or any bytes that are not PEM, are a shared secret."""
    text = content.strip()
    if text.startswith(b"-----"):
        return _parse_pem(text, what, signing)
    secret = bytes.fromhex(text.decode()) if HEX.fullmatch(text) and len(text) % 2 == 0 else content
    if len(secret) < LEAST_SECRET:
        raise ConfError(
            f"{what}: a secret of {len(secret)} bytes; expected {LEAST_SECRET} or more, from a random source.\n"
            "Make one with: openssl rand -hex 32"
        )
    return Key("hmac-sha256", secret=secret)


def _parse_pem(text: bytes, what: str, signing: bool) -> Key:
    ed25519, serialization = _cryptography()
    if b"PUBLIC KEY" in text:
        if signing:
            raise ConfError(f"{what} is a public key: it can check, not sign. Give the private one.")
        found = _load(lambda: serialization.load_pem_public_key(text), what)
        if not isinstance(found, ed25519.Ed25519PublicKey):
            raise ConfError(f"{what}: not an Ed25519 key. Make one with: dpspark sign --new-key PATH")
        return Key("ed25519", public=found)
    if not signing:
        raise ConfError(f"{what} is a private key. To check a signature give the public one.")
    found = _load(lambda: serialization.load_pem_private_key(text, password=None), what)
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise ConfError(f"{what}: not an Ed25519 key. Make one with: dpspark sign --new-key PATH")
    return Key("ed25519", private=found, public=found.public_key())


def _load(load: Any, what: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load()
    except TypeError:
        failed = ConfError(f"{what}: it has a password. Give a key without one.")
    except (ValueError, UnsupportedAlgorithm):
        failed = ConfError(f"{what}: cannot be read as a PEM key.")
    raise failed


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfError(
            "Ed25519 keys need the cryptography package: pip install 'dpspark[sign]'. A shared secret needs nothing."
        ) from None
    return ed25519, serialization


def _raw(public: Any) -> bytes:
    return public.public_bytes_raw()


def new_key(path: str) -> tuple[str, str]:
    """Make an Ed25519 pair: the private key at `path`, for its owner alone, the public one at `path`.pub."""
    ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    pem, public = serialization.Encoding.PEM, f"{path}.pub"
    private_pem = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public_pem = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    for name, content, mode in ((path, private_pem, 0o600), (public, public_pem, 0o644)):
        try:
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        except (OSError, ValueError) as error:
            reason = (
                "there is one already" if isinstance(error, FileExistsError) else getattr(error, "strerror", "no path")
            )
            raise OutputError(f"--new-key {name!r}: {reason}. Choose another path.") from None
    return path, public


def sign_release(folder: Place, key: Key) -> str:
    """Write the signature. The same key again changes nothing; another one is refused."""
    message = _manifest_bytes(folder)
    before = read_signature(folder)
    if before is not None:
        if before.algorithm == key.algorithm and key.accepts(message, before.value):
            return f"signed already ({before.shown})"
        raise OutputError(
            f"release {str(folder)!r} has a signature of another key, or of another manifest.\n"
            f"Verify it; to sign it anew, remove its {SIGNATURE} first."
        )
    content = {
        "format": FORMAT,
        "algorithm": key.algorithm,
        **({"key": key.fingerprint} if key.fingerprint else {}),
        "of": MANIFEST,
        "sha256": hashlib.sha256(message).hexdigest(),
        "signature": key.sign(message).hex(),
    }
    _write(folder / SIGNATURE, json.dumps(content, indent=2) + "\n")
    return f"signed ({key.algorithm}{f', key {key.fingerprint}' if key.fingerprint else ''})"


def _write(path: Place, text: str) -> None:
    if isinstance(path, StorePath):
        try:
            return path.write_bytes(text.encode("utf-8"))
        except OSError:
            raise OutputError(f"{str(path)!r}: it cannot be written. The release is not signed.") from None
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"{str(path)!r}: {error.strerror}. The release is not signed.") from None


def read_signature(folder: Place) -> Signature | None:
    """Read the signature of a release; None if there is none."""
    content = read_json(folder / SIGNATURE)
    if content is None:
        return None
    try:
        if content["format"] != FORMAT or not isinstance(content["algorithm"], str):
            raise ValueError("format")
        key = content.get("key")
        shown = key if isinstance(key, str) and re.fullmatch(r"[0-9a-f]{16}", key) else None
        algorithm = content["algorithm"] if content["algorithm"] in ("ed25519", "hmac-sha256") else "unknown"
        return Signature(algorithm, bytes.fromhex(content["signature"]), shown)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OutputError(f"{str(folder)!r}: its {SIGNATURE} cannot be read.") from None


def check_signature(folder: Place, signature: Signature, key: Key) -> str | None:
    """Say what is wrong with a signature; None if nothing is."""
    if signature.algorithm != key.algorithm:
        return f"it is {signature.algorithm}, and the key is for {key.algorithm}"
    if not key.accepts(_manifest_bytes(folder), signature.value):
        return "not made with this key over this manifest: one of them was changed"
    return None


def _manifest_bytes(folder: Place) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise OutputError(f"{str(folder)!r}: its {MANIFEST} cannot be read ({error.strerror}).") from None
