"""What may keep equivocal from working here, and what to do about it.

Everything is looked at from outside: JAX is started in a process of its own, which may fail, crash
or hang without taking the answer with it, and libraries are looked up rather than imported.
"""

from equivocal.doctor.devices import devices
from equivocal.doctor.finding import Finding, State, is_well
from equivocal.doctor.packages import extras, versions
from equivocal.doctor.place import folders, machine

__all__ = ["Finding", "State", "examine", "is_well"]


def examine() -> list[Finding]:
    """All findings, in the order in which they are shown."""
    with devices() as starting:  # JAX takes a second, in which the rest is looked at
        first, last = [*versions(), *machine()], [*folders(), *extras()]
        return [*first, *starting(), *last]
