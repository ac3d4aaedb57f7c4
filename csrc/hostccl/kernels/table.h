// The entry points of one vector width, and where each width's table comes from.
// Any thread; constant data. Must not know: which of them the machine can run (dispatch.cpp).
#pragma once

#include "kernels.h"

namespace hostccl {

struct KernelTable {
  const char* name;
  void (*reduce)(const ReduceArgs& args);
  void (*copy)(char* out, const char* in, size_t bytes);
  void (*copy_streaming)(char* out, const char* in, size_t bytes);
};

// The same source compiled with different machine flags. Call a table's functions only where the machine has them.
const KernelTable& baseline_table();
#if defined(__x86_64__)
const KernelTable& avx2_table();
const KernelTable& avx512_table();
#endif

}  // namespace hostccl
