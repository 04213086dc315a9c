"""The comparison that was registered before its results were looked at."""

from hashlib import sha256
from importlib import resources

# of the file as it was when nothing had been looked at; a change of it is a new registration
CHECKSUM = "b50dc7a08f609d7f141164f82ed12cb9bf25adf5b4361d2a3377e9b94ab361b0"


def test_the_registration_has_not_changed_since() -> None:
    text = (resources.files("equivocal.doubt") / "registration.toml").read_bytes()
    assert sha256(text).hexdigest() == CHECKSUM
