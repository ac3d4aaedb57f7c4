#include "hostccl/op.h"

namespace hostccl {
namespace {

uint64_t mix(uint64_t digest, uint64_t value) { return (digest ^ value) * 0x100000001b3ull; }

uint64_t digest_of(const Parts& parts, int nranks) {
  uint64_t digest = 0xcbf29ce484222325ull;
  for (int rank = 0; rank < nranks; ++rank) digest = mix(digest, parts.elements(rank));
  return digest;
}

uint64_t total_of(const Parts& parts, int nranks) {
  uint64_t total = 0;
  for (int rank = 0; rank < nranks; ++rank) total += parts.elements(rank);
  return total;
}

}  // namespace

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kBarrier:
      return "barrier";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllToAll:
      return "all_to_all";
  }
  return "unknown";
}

bool has_reduction(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather || kind == Kind::kScatter;
}

Header make_header(const Collective& op, int nranks) {
  Header header{};
  header.kind = op.kind;
  header.type = static_cast<uint8_t>(op.type);
  header.reduction = has_reduction(op.kind) ? op.reduction : Reduction::kSum;
  header.root = has_root(op.kind) ? op.root : 0;
  header.factor = op.factor;
  switch (op.kind) {
    case Kind::kAllGather:
      header.count = total_of(op.recv, nranks);
      header.digest = digest_of(op.recv, nranks);
      break;
    case Kind::kReduceScatter:
      header.count = total_of(op.send, nranks);
      header.digest = digest_of(op.send, nranks);
      break;
    case Kind::kScatter:  // only the root has pieces to send; all know the size of one
      header.count = op.recv.count;
      break;
    case Kind::kBroadcast:
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kGather:
      header.count = op.send.count;
      break;
    case Kind::kAllToAll:  // each pair has a count of its own: compared pair by pair
    case Kind::kBarrier:
      break;
  }
  return header;
}

bool agree(const Header& a, const Header& b) {
  return a.kind == b.kind && a.type == b.type && a.reduction == b.reduction && a.root == b.root && a.count == b.count &&
         a.digest == b.digest;
}

std::string describe(const Header& header) {
  std::string text = kind_name(header.kind);
  if (header.kind == Kind::kBarrier) return text;
  text += std::string(" ") + type_name(static_cast<DataType>(header.type));
  if (header.kind != Kind::kAllToAll) text += "[" + std::to_string(header.count) + "]";
  if (has_reduction(header.kind)) text += std::string(" ") + reduction_name(header.reduction);
  if (has_root(header.kind)) text += " root " + std::to_string(header.root);
  return text;
}

QueuedCollective::QueuedCollective(const Collective& op, int nranks) : op_(op) {
  own(op_.send, send_, nranks);
  own(op_.recv, recv_, nranks);
}

void QueuedCollective::relocate(void* (*to)(const void*)) {
  for (void** address : {&op_.send.block, &op_.recv.block}) {
    if (*address != nullptr) *address = to(*address);
  }
  for (std::vector<void*>* list : {&send_.list, &recv_.list}) {
    for (void*& address : *list) {
      if (address != nullptr) address = to(address);
    }
  }
  if (op_.factor_at != nullptr) op_.factor_at = to(op_.factor_at);
}

void QueuedCollective::own(Parts& parts, OwnedParts& storage, int nranks) {
  if (parts.list) {
    storage.list.assign(parts.list, parts.list + nranks);
    parts.list = storage.list.data();
  }
  if (parts.counts) {
    storage.counts.assign(parts.counts, parts.counts + nranks);
    parts.counts = storage.counts.data();
  }
}

}  // namespace hostccl
