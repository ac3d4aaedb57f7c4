// hostccl's functions under the names that they have in this library: inner_ncclAllReduce and so on. The generated headers
// rename all that nccl_abi.h declares, and take that back, so that the shell can define the real names.
#pragma once

#include "inner_names.h"

#include "hostccl/abi.h"

namespace nccl_emulator {
#define NCCL_EMULATOR_USE(member, symbol, result, parameters) using nccl_abi::symbol;
PYCOMMS_NCCL_FUNCTIONS(NCCL_EMULATOR_USE)
#undef NCCL_EMULATOR_USE
}  // namespace nccl_emulator

#include "outer_names.h"

namespace nccl_emulator {

using hostccl::CompletionFn;
using nccl_abi::Config;
using nccl_abi::DataType;
using nccl_abi::RedOp;
using nccl_abi::Result;
using nccl_abi::ScalarResidence;
using nccl_abi::StreamHandle;
using nccl_abi::UniqueId;

using InnerComm = nccl_abi::CommHandle;

// What a program holds: a number that is never used twice.
struct Opaque;
using Comm = Opaque*;

}  // namespace nccl_emulator
