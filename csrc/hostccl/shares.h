// How the elements of a reduction are divided among ranks, and whether the ranks of a host reduce among themselves first.
// Pure; the same on every rank. Must not know: how data travels.
#pragma once

#include <algorithm>
#include <cstddef>

#include "hostccl/layout.h"
#include "hostccl/op.h"
#include "hostccl/places.h"

namespace hostccl {

struct Share {
  size_t begin;  // in elements
  size_t count;
};

// Of `owner` among `owners`; shares start on multiples of kPad bytes.
inline Share share_of(int owner, int owners, size_t count, size_t element_size) {
  const size_t grain = kPad / element_size;
  const auto n = static_cast<size_t>(owners);
  const size_t each = ((count + n - 1) / n + grain - 1) / grain * grain;
  const size_t begin = std::min(count, each * static_cast<size_t>(owner));
  return {begin, std::min(each, count - begin)};
}

// Low precision is accumulated in float32 and rounded once, and what a host has made so far would have to be rounded to be
// sent. Of maxima and minima nothing is rounded.
inline bool goes_by_hosts(const Places& places, const Collective& op) {
  if (places.is_one_host() || places.nhosts() == places.nranks()) return false;
  switch (op.type) {
    case nccl_abi::kFloat16:
    case nccl_abi::kBfloat16:
    case nccl_abi::kFloat8e4m3:
    case nccl_abi::kFloat8e5m2:
      return op.reduction == Reduction::kMax || op.reduction == Reduction::kMin;
    case nccl_abi::kInt8:
    case nccl_abi::kUint8:
    case nccl_abi::kInt16:
    case nccl_abi::kUint16:
    case nccl_abi::kInt32:
    case nccl_abi::kUint32:
    case nccl_abi::kInt64:
    case nccl_abi::kUint64:
    case nccl_abi::kFloat32:
    case nccl_abi::kFloat64:
    case nccl_abi::kComplex64:
    case nccl_abi::kComplex128:
    case nccl_abi::kBool:
      break;
  }
  return true;
}

}  // namespace hostccl
