// One element of any type, read as a double. Any thread.
#pragma once

#include "hostccl/nccl_abi.h"

namespace hostccl {

// Complex types: the real part.
double read_scalar(const void* scalar, nccl_abi::DataType type);

}  // namespace hostccl
