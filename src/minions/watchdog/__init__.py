"""The watchdog: gives back what silent executors hold, reports what should not be, forgets what is old."""
