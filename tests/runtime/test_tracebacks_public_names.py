from penstock.runtime.tracebacks import named_by


class Inner:
    def method(self): ...

    @classmethod
    def made(cls): ...

    @property
    def size(self):
        return 1


class Own(Inner):
    def own(self): ...


Inner.__module__ = "penstock.inner"


def test_methods_of_bases_bear_the_name_of_the_public_class():
    named_by(Own)

    assert Own.method.__qualname__ == "Own.method"
    assert Own.made.__qualname__ == "Own.made"
    assert Own.method.__module__ == __name__
    assert Own.own.__qualname__ == "Own.own"
    assert Inner.__qualname__ == "Inner"
