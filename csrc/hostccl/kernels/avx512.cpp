// The kernels for: AVX-512 F, BW, VL and DQ.
#if defined(__x86_64__)
#define PYCOMMS_VECTOR_BYTES 64
#include "kernels_of_width.h"

namespace hostccl {

const KernelTable& avx512_table() {
  static constexpr KernelTable kTable = table_named("avx512");
  return kTable;
}

}  // namespace hostccl
#endif
