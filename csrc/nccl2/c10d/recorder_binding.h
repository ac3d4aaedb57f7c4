// What Python sees of the flight recorder's ring. Included by module.cpp.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace pycomms::c10d_backend {

void bind_recorder(pybind11::module_& m);

}  // namespace pycomms::c10d_backend
