// What differs between the versions of torch that we build against.
#pragma once

#include <torch/version.h>

#define PYCOMMS_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if PYCOMMS_TORCH_AT_LEAST(2, 14)
#define PYCOMMS_OVERRIDE_SINCE_2_14 override
#else
#define PYCOMMS_OVERRIDE_SINCE_2_14
#endif

namespace pycomms::c10d_backend {

// Whether torch lets a group change its rank and size: before, they are constants of it.
constexpr bool kCanRegroup = PYCOMMS_TORCH_AT_LEAST(2, 14);

}  // namespace pycomms::c10d_backend
