// The calls of a window that are made most, bound without pybind11's search for an overload, which costs more than what they do.
// Must not contain: logic.
#pragma once

#include <pybind11/pybind11.h>

namespace pycomms::c10d_backend {

// Replaces put, get and flush of the class; calls with keywords go on to what was there. `translate` sets the Python exception for
// one of C++.
void bind_fast_calls(pybind11::object window_class, void (*translate)(std::exception_ptr));

}  // namespace pycomms::c10d_backend
