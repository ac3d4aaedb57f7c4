// How long a call may take, as Python says it: a timedelta, or None. pybind11's own conversion counts in microseconds, which
// timedelta.max overflows, and makes nothing of what is less than a millisecond.
// Needs the GIL. Must not know: what the longest time is that somebody can wait.
#pragma once

#include <datetime.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <optional>

namespace pycomms::c10d_backend {

struct Timeout {
  std::optional<std::chrono::milliseconds> limit;
};

}  // namespace pycomms::c10d_backend

template <>
struct pybind11::detail::type_caster<pycomms::c10d_backend::Timeout> {
  PYBIND11_TYPE_CASTER(pycomms::c10d_backend::Timeout, const_name("datetime.timedelta | None"));

  bool load(handle source, bool) {
    if (source.is_none()) return true;
    if (PyDateTimeAPI == nullptr) PyDateTime_IMPORT;
    if (!PyDelta_Check(source.ptr())) return false;
    value.limit = std::chrono::hours(24) * PyDateTime_DELTA_GET_DAYS(source.ptr()) +
                  std::chrono::seconds(PyDateTime_DELTA_GET_SECONDS(source.ptr())) +
                  std::chrono::milliseconds((PyDateTime_DELTA_GET_MICROSECONDS(source.ptr()) + 999) / 1000);
    return true;
  }
};
