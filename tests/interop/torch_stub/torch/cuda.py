"""Nothing of torch.cuda is there."""


def is_available():
    return False
