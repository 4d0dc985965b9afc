"""The table of exit statuses: the contract's numbers and order."""

import itertools

from kernel_velocity import errors, statuses
from kernel_velocity.statuses import OF_GATES, OF_NIGHTS, Status, Tone


def test_order_is_that_of_the_contract():
    order = (2, 22, 10, 21, 20, 11, 30)
    for sooner, later in itertools.combinations(map(Status, order), 2):
        assert statuses.first({later: True, sooner: True}) is sooner
        assert statuses.first({later: True, sooner: False}) is later
    assert statuses.first({}) is Status.CLEAN
    assert set(OF_NIGHTS) == {*order, 0} and set(OF_NIGHTS) - set(OF_GATES) == {21, 30}
    assert (Status.WRONG, Status.INTERRUPTED) == (1, 130)


def test_status_is_printed_as_its_number():
    assert f"{Status.SUSPECT} {Status.SUSPECT!s}" == "11 11"
    assert statuses.in_help({Status.SUSPECT, Status.CLEAN}) == f"exit status: 0 clean; 11 {Status.SUSPECT.words}"


def test_unknown_status_is_bad():
    assert (statuses.tone(139), statuses.tone(30), statuses.tone(0)) == (Tone.BAD, Tone.DOUBT, Tone.CLEAN)


def test_errors_have_statuses_of_the_table():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.KernelVelocityError)}
    assert codes == {2, 20, 21, 22} and all(isinstance(code, Status) for code in codes)
