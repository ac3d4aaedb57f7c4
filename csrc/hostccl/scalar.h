// One element of any type, read as a double. Any thread.
#pragma once

#include "hostccl/nccl_abi.h"

namespace hostccl {

// Complex types: the real part.
double read_scalar(const void* scalar, nccl_abi::DataType type);
// Whether that double says it all: false for a complex number with an imaginary part, and for integers beyond 2^53.
bool is_exact_scalar(const void* scalar, nccl_abi::DataType type);

}  // namespace hostccl
