"""A world without its noise."""

from equivocal.world import World


def test_a_silenced_world_is_the_one_without_noise() -> None:
    noisy = World.load("both_ways", rare=0.2)
    silent = noisy.remove_noise()
    wanted = World.load("both_ways", rare=0.2, exchange=0, deletion=0, insertion=0, case=0)
    assert not silent.has_noise
    assert silent.sentences == wanted.sentences
    assert silent.parameters == noisy.parameters
    assert (silent.tokens, silent.units) == (noisy.tokens, noisy.units)
    assert silent.remove_noise() is silent
