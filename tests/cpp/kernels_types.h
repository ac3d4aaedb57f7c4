// All types that the kernels know, and the widths of vectors that this machine can try. For tests of the kernels.
#pragma once

#include <string>
#include <vector>

#include "hostccl/kernels/kernels.h"

namespace kernels_test {

using nccl_abi::DataType;

inline constexpr DataType kTypes[] = {
    DataType::kInt8,       DataType::kUint8,    DataType::kInt16,   DataType::kUint16,     DataType::kInt32,
    DataType::kUint32,     DataType::kInt64,    DataType::kUint64,  DataType::kFloat8e4m3, DataType::kFloat8e5m2,
    DataType::kFloat16,    DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64,    DataType::kComplex64,
    DataType::kComplex128, DataType::kBool};

// Those that this machine can run; leaves the widest chosen.
inline std::vector<std::string> widths() {
  std::vector<std::string> all;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    if (hostccl::set_vector_width(name)) all.push_back(name);
  }
  return all;
}

}  // namespace kernels_test
