"""python -m minions."""

from minions.commands.main import run

if __name__ == "__main__":
    run()
