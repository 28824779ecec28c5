"""What is done to a mesh leaves somebody there who can end the pass."""

from chaos.acts import others_stay
from chaos.mesh import Reader


def test_the_last_that_stays_does_not_leave_although_others_are_still_on_their_way_out():
    stays, goes = Reader(None, None, None), Reader(None, None, None, leaving=True)

    assert others_stay(goes, [stays, goes])
    assert not others_stay(stays, [stays, goes])
    assert not others_stay(stays, [stays])
