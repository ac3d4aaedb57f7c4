// The window behind a Python object, for its methods; and an error for an object that has none, which pybind11 would call a failed
// cast. Needs the GIL. Must not know: what a window does.
#pragma once

#include <pybind11/pybind11.h>

#include "nccl2/c10d/window.h"

namespace pycomms::c10d_backend {

// By its holder, which is there once __init__ has been: pybind11 would make up an object otherwise. `self` is of the class.
inline TensorWindow& window_of(PyObject* self) {
  auto* const instance = reinterpret_cast<pybind11::detail::instance*>(self);
  if (instance->simple_layout && instance->simple_holder_constructed) [[likely]]
    return *static_cast<TensorWindow*>(instance->simple_value_holder[0]);
  PyErr_SetString(PyExc_RuntimeError, "the window has not been made: its __init__ was not called, or has failed");
  throw pybind11::error_already_set();
}

// As the first argument of a method; the caller's reference keeps it.
struct Self {
  TensorWindow* window = nullptr;
  TensorWindow* operator->() const { return window; }
  TensorWindow& operator*() const { return *window; }
};

}  // namespace pycomms::c10d_backend

template <>
struct pybind11::detail::type_caster<pycomms::c10d_backend::Self> {
  PYBIND11_TYPE_CASTER(pycomms::c10d_backend::Self, const_name("Window"));

  bool load(handle source, bool) {
    if (!isinstance<pycomms::c10d_backend::TensorWindow>(source)) return false;
    value.window = &pycomms::c10d_backend::window_of(source.ptr());
    return true;
  }
};
