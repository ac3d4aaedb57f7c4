// What Python sees of windows. Included by module.cpp.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace pycomms::c10d_backend {

void bind_windows(pybind11::module_& m);

}  // namespace pycomms::c10d_backend
