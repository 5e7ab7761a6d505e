"""Hosts over a real ssh to a real sshd, with users and homes of their own."""
