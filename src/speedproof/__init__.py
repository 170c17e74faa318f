"""Does torch.compile pay off on my project? One command, on the unchanged script, answers with proof."""

__version__ = "0.1.0"
