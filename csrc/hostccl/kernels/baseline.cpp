// The kernels for: what every machine of this architecture can run.
#define PYCOMMS_VECTOR_BYTES 16
#include "kernels_of_width.h"

namespace hostccl {

const KernelTable& baseline_table() {
  static constexpr KernelTable kTable = table_named("baseline");
  return kTable;
}

}  // namespace hostccl
