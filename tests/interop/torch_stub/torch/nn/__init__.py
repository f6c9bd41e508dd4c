"""Names used in annotations only."""


class Module:
    """A base class without behaviour."""
