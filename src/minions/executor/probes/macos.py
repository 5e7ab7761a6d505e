"""macOS's own libraries through ctypes, for facts that are wanted every second: starting a program each time would cost
more than all the rest. Each function gives None where the library does not have the answer."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

_FRAMEWORKS = "/System/Library/Frameworks"
_UTF8 = 0x08000100  # kCFStringEncodingUTF8
_SINT64 = 4  # kCFNumberSInt64Type
_COMBINED_SESSION = 0  # kCGEventSourceStateCombinedSessionState
_ANY_INPUT = 0xFFFFFFFF  # kCGAnyInputEventType
_POINTER = ctypes.c_void_p


@cache
def core_foundation() -> Any:
    """CoreFoundation with the signatures that are used here."""
    library = ctypes.CDLL(f"{_FRAMEWORKS}/CoreFoundation.framework/CoreFoundation")
    _sign(library.CFStringCreateWithCString, _POINTER, _POINTER, ctypes.c_char_p, ctypes.c_uint32)
    _sign(library.CFNumberGetValue, ctypes.c_bool, _POINTER, ctypes.c_long, _POINTER)
    _sign(library.CFDictionaryGetValue, _POINTER, _POINTER, _POINTER)
    _sign(library.CFBooleanGetValue, ctypes.c_bool, _POINTER)
    _sign(library.CFRelease, None, _POINTER)
    _sign(library.CFRunLoopGetCurrent, _POINTER)
    _sign(library.CFRunLoopAddSource, None, _POINTER, _POINTER, _POINTER)
    _sign(library.CFRunLoopRun, None)
    _sign(library.CFRunLoopStop, None, _POINTER)
    return library


@cache
def io_kit() -> Any:
    """IOKit with the signatures that are used here."""
    library = ctypes.CDLL(f"{_FRAMEWORKS}/IOKit.framework/IOKit")
    _sign(library.IOServiceMatching, _POINTER, ctypes.c_char_p)
    _sign(library.IOServiceGetMatchingService, ctypes.c_uint32, ctypes.c_uint32, _POINTER)
    _sign(library.IORegistryEntryCreateCFProperty, _POINTER, ctypes.c_uint32, _POINTER, _POINTER, ctypes.c_uint32)
    _sign(library.IOObjectRelease, ctypes.c_int, ctypes.c_uint32)
    return library


@cache
def _core_graphics() -> Any:
    library = ctypes.CDLL(f"{_FRAMEWORKS}/CoreGraphics.framework/CoreGraphics")
    _sign(library.CGEventSourceSecondsSinceLastEventType, ctypes.c_double, ctypes.c_int32, ctypes.c_uint32)
    _sign(library.CGSessionCopyCurrentDictionary, _POINTER)
    return library


def hid_idle_nanoseconds() -> int | None:
    """IOHIDSystem's counter: since the last input of a keyboard, mouse or trackpad that is plugged in or paired."""
    kit, foundation = io_kit(), core_foundation()
    service = kit.IOServiceGetMatchingService(0, kit.IOServiceMatching(b"IOHIDSystem"))  # takes the dictionary over
    if not service:
        return None
    try:
        with _string(b"HIDIdleTime") as key:
            number = kit.IORegistryEntryCreateCFProperty(service, key, None, 0)
        if not number:
            return None
        found = ctypes.c_int64()
        is_exact = foundation.CFNumberGetValue(number, _SINT64, ctypes.byref(found))
        foundation.CFRelease(number)
        return found.value if is_exact else None
    finally:
        kit.IOObjectRelease(service)


def session_idle_seconds() -> float | None:
    """Quartz's counter, which counts screen sharing as well; None outside a graphical session."""
    graphics = _core_graphics()
    session = graphics.CGSessionCopyCurrentDictionary()
    if not session:
        return None
    core_foundation().CFRelease(session)
    return float(graphics.CGEventSourceSecondsSinceLastEventType(_COMBINED_SESSION, _ANY_INPUT))


def screen_is_locked() -> bool | None:
    """None outside a graphical session. The key is absent, not false, while the screen is unlocked."""
    foundation = core_foundation()
    session = _core_graphics().CGSessionCopyCurrentDictionary()
    if not session:
        return None
    try:
        with _string(b"CGSSessionScreenIsLocked") as key:
            value = foundation.CFDictionaryGetValue(session, key)
        return bool(value and foundation.CFBooleanGetValue(value))
    finally:
        foundation.CFRelease(session)


def system_number(name: bytes) -> int | None:
    """An integer of sysctl."""
    library: Any = ctypes.CDLL(None)
    found, size = ctypes.c_int64(), ctypes.c_size_t(8)
    failed = library.sysctlbyname(name, ctypes.byref(found), ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else found.value


def thermal_state() -> int | None:
    """NSProcessInfo.thermalState, 0 to 3."""
    ctypes.CDLL(f"{_FRAMEWORKS}/Foundation.framework/Foundation")
    runtime: Any = ctypes.CDLL("/usr/lib/libobjc.A.dylib")
    _sign(runtime.objc_getClass, _POINTER, ctypes.c_char_p)
    _sign(runtime.sel_registerName, _POINTER, ctypes.c_char_p)
    # objc_msgSend has the signature of the method that is called; a variadic call would break on Apple silicon.
    ask_object = ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER)(("objc_msgSend", runtime))
    ask_number = ctypes.CFUNCTYPE(ctypes.c_long, _POINTER, _POINTER)(("objc_msgSend", runtime))
    process = ask_object(runtime.objc_getClass(b"NSProcessInfo"), runtime.sel_registerName(b"processInfo"))
    return int(ask_number(process, runtime.sel_registerName(b"thermalState"))) if process else None


@contextmanager
def _string(text: bytes) -> Generator[Any]:
    foundation = core_foundation()
    made = foundation.CFStringCreateWithCString(None, text, _UTF8)
    try:
        yield made
    finally:
        foundation.CFRelease(made)


def _sign(function: Any, result: Any, *arguments: Any) -> None:
    function.restype, function.argtypes = result, list(arguments)
