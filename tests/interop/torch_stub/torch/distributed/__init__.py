"""One process, no process group."""


class ProcessGroup:
    """Used in annotations only."""


def is_available():
    return False


def is_initialized():
    return False
