// The kernels for: AVX2 with F16C.
#if defined(__x86_64__)
#define PYCOMMS_VECTOR_BYTES 32
#include "kernels_of_width.h"

namespace hostccl {

const KernelTable& avx2_table() {
  static constexpr KernelTable kTable = table_named("avx2");
  return kTable;
}

}  // namespace hostccl
#endif
