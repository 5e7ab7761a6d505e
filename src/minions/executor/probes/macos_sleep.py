"""macOS's notices of sleep, from IOKit: they need no window and no permission, and sleep waits for the answer."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from typing import Any

from minions.executor.probes import macos

log = logging.getLogger(__name__)

_CAN_SLEEP = 0xE0000270  # kIOMessageCanSystemSleep: idle sleep asks first
_WILL_SLEEP = 0xE0000280  # kIOMessageSystemWillSleep
_HAS_POWERED_ON = 0xE0000300  # kIOMessageSystemHasPoweredOn
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)


class PowerNotices:
    """Calls `will_sleep` and `has_woken` from a thread of its own. will_sleep returns when the system may sleep."""

    def __init__(self, will_sleep: Callable[[], None], has_woken: Callable[[], None]) -> None:
        self._will_sleep, self._has_woken = will_sleep, has_woken
        self._callback = _CALLBACK(self._notice)  # IOKit keeps no reference: it must live as long as this object
        self._connection = 0
        self._run_loop: Any = None
        self._begun = threading.Event()

    def start(self) -> None:
        """Begin to listen."""
        threading.Thread(target=self._listen, name="sleep", daemon=True).start()
        self._begun.wait(2)

    def close(self) -> None:
        """Stop listening."""
        if self._run_loop is not None:
            macos.core_foundation().CFRunLoopStop(self._run_loop)

    def answer(self, message: int, argument: Any, allow: Callable[[Any], None]) -> None:
        """One notice. allow: lets the system go on; both notices before sleep must be answered."""
        if message == _WILL_SLEEP:
            try:
                self._will_sleep()
            finally:
                allow(argument)
        elif message == _CAN_SLEEP:
            allow(argument)
        elif message == _HAS_POWERED_ON:
            self._has_woken()

    def _notice(self, _context: Any, _service: int, message: int, argument: Any) -> None:
        kit = macos.io_kit()
        self.answer(message, argument, lambda given: kit.IOAllowPowerChange(self._connection, given))

    def _listen(self) -> None:
        try:
            self._register()
            self._has_woken()
        except (AttributeError, OSError) as error:
            log.warning("notices of sleep cannot be had: %s", error)
            return
        finally:
            self._begun.set()
        macos.core_foundation().CFRunLoopRun()

    def _register(self) -> None:
        kit, foundation = macos.io_kit(), macos.core_foundation()
        kit.IORegisterForSystemPower.restype = ctypes.c_uint32
        kit.IORegisterForSystemPower.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_void_p),
            _CALLBACK,
            ctypes.POINTER(ctypes.c_uint32),
        ]
        kit.IOAllowPowerChange.restype = ctypes.c_int
        kit.IOAllowPowerChange.argtypes = [ctypes.c_uint32, ctypes.c_void_p]
        kit.IONotificationPortGetRunLoopSource.restype = ctypes.c_void_p
        kit.IONotificationPortGetRunLoopSource.argtypes = [ctypes.c_void_p]
        port, notifier = ctypes.c_void_p(), ctypes.c_uint32()
        self._connection = kit.IORegisterForSystemPower(
            None, ctypes.byref(port), self._callback, ctypes.byref(notifier)
        )
        if not self._connection:
            raise OSError("IORegisterForSystemPower gave no connection")
        self._run_loop = foundation.CFRunLoopGetCurrent()
        mode = ctypes.c_void_p.in_dll(foundation, "kCFRunLoopDefaultMode")
        foundation.CFRunLoopAddSource(self._run_loop, kit.IONotificationPortGetRunLoopSource(port), mode)
