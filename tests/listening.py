"""Progress that remembers what it was told."""

from febm.progress import Silent


class Listener(Silent):
    """`heard` are the messages."""

    def __init__(self):
        object.__setattr__(self, "heard", [])

    def message(self, text):
        self.heard.append(text)
