"""Which of a socket's streams is taken for the kubelet's."""

from deviceplugin.kubelet.streams import Streams


def test_a_stream_from_before_the_registration_is_not_the_kubelets() -> None:
    """Only the first stream since Register counts, and what others do changes nothing."""
    counts: list[int] = []
    streams = Streams(4, counts.append)
    early = streams.enter()
    assert not streams.came
    streams.expect()
    own, late = streams.enter(), streams.enter()
    assert [streams.is_kubelets(ticket) for ticket in (early, own, late)] == [False, True, False]
    assert streams.live
    streams.leave(own)
    assert not streams.live
    assert streams.came
    streams.enter()
    assert not streams.live, "the kubelet opens one stream on a socket"
    assert counts == [0, 2, 3, 0, 0]


def test_others_cannot_take_the_kubelets_place() -> None:
    """With all slots taken the kubelet's stream is let in all the same, and no other."""
    streams = Streams(2, lambda _: None)
    assert streams.enter()
    assert streams.enter()
    assert not streams.enter()
    streams.expect()
    assert streams.is_kubelets(streams.enter())
    assert not streams.enter()
