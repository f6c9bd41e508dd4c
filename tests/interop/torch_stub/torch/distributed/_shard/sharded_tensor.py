"""Names imported by Energon."""


class ShardedTensorBase:
    """No object is ever an instance of this."""
