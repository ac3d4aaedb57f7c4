// What a collective is: the arguments as the caller gave them, and the header that members compare before they trust each
// other. Plain data; any thread. Must not know: shared memory, waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hostccl/hostccl.h"
#include "hostccl/kernels/kernels.h"
#include "hostccl/shared_buffers.h"

namespace hostccl {

enum class Kind : uint8_t {
  kBarrier,
  kBroadcast,
  kAllReduce,
  kReduce,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
};
const char* kind_name(Kind kind);
bool has_reduction(Kind kind);
bool has_root(Kind kind);

// One piece per rank: a list of pointers, or one block cut into equal pieces; counts per rank, or one for all. In elements.
struct Parts {
  void* block = nullptr;
  void* const* list = nullptr;
  const size_t* counts = nullptr;
  size_t count = 0;

  size_t elements(int rank) const { return counts ? counts[rank] : count; }
  std::byte* at(int rank, size_t element_size) const {
    if (list) return static_cast<std::byte*>(list[rank]);
    return static_cast<std::byte*>(block) + static_cast<size_t>(rank) * count * element_size;
  }
};

struct Collective {
  Kind kind = Kind::kBarrier;
  DataType type = nccl_abi::kInt8;
  Reduction reduction = Reduction::kSum;
  int root = 0;
  double factor = 1;                // of kPreMulSum, this rank's own
  const void* factor_at = nullptr;  // where to read it when the operation runs; null: it is known
  // What this rank gives: one piece (broadcast, all_reduce, reduce, all_gather, gather) or one per rank.
  Parts send{};
  // What this rank gets: one piece, or one per rank (all_gather, gather, all_to_all).
  Parts recv{};
  SharedLocation shared{};  // of an all_reduce in place, when others can map its buffer

  size_t element_bytes() const { return element_size(type); }
  const std::byte* input() const { return static_cast<const std::byte*>(send.block); }
  std::byte* output() const { return static_cast<std::byte*>(recv.block); }
};

// What members compare. `digest` covers the counts per rank where there are several.
struct Header {
  Kind kind;
  uint8_t type;
  Reduction reduction;
  uint8_t payload;  // where this rank's data is: PayloadPlace; not compared
  int32_t root;
  uint64_t count;
  uint64_t digest;
  double factor;  // not compared
};

Header make_header(const Collective& op, int nranks);
bool agree(const Header& a, const Header& b);
// "all_reduce float32[1024] sum"
std::string describe(const Header& header);

// A collective that outlives the call that issued it: owns its lists.
class QueuedCollective {
 public:
  QueuedCollective(const Collective& op, int nranks);
  QueuedCollective(QueuedCollective&&) = default;
  QueuedCollective& operator=(QueuedCollective&&) = default;
  const Collective& op() const { return op_; }
  // Replaces every address of a caller's buffer.
  void relocate(void* (*to)(const void*));

 private:
  struct OwnedParts {
    std::vector<void*> list;
    std::vector<size_t> counts;
  };
  static void own(Parts& parts, OwnedParts& storage, int nranks);

  Collective op_;
  OwnedParts send_;
  OwnedParts recv_;
};

}  // namespace hostccl
