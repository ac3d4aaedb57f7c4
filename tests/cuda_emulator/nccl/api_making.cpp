// Exported: how communicators are made.

#include <algorithm>
#include <numeric>

#include "call_counts.h"
#include "device_runtime.h"
#include "group.h"
#include "notice.h"
#include "refusal.h"

namespace nccl_emulator {
namespace {

constexpr int64_t kMakingTimeout = 1800 * pycomms::kSecond;
constexpr int kShrinkAbort = 1;

Result check_config(const Config* config) {
  if (config == nullptr || config->magic == nccl_abi::kConfigMagic) return nccl_abi::kSuccess;
  return refuse(nccl_abi::kInvalidArgument, "config was not initialised with NCCL_CONFIG_INITIALIZER");
}

// What a config leaves open comes from the parent.
bool is_blocking(const Config* config, const Handle* parent) {
  if (config != nullptr && config->blocking != nccl_abi::kUndefInt) return config->blocking != 0;
  return parent == nullptr || parent->is_blocking();
}

std::string name_of(const UniqueId& id) {
  return std::to_string(std::hash<std::string>{}(std::string(id.internal, sizeof(id.internal))));
}

// A config for hostccl, with which no call blocks.
Config nonblocking() {
  Config config;
  config.blocking = 0;
  return config;
}

Result join(Handle& child, const UniqueId& id, int nranks, int rank) {
  child.rename(name_of(id));
  Config config = nonblocking();
  InnerComm inner = nullptr;
  const Result begun = inner_ncclCommInitRankConfig(&inner, nranks, id, rank, &config);
  if (begun != nccl_abi::kInProgress) return told(begun);
  child.adopt(inner);
  return child.await_inner();
}

// A new communicator from a unique id that the caller has.
Result make_from_id(Comm* out, const UniqueId& id, int nranks, int rank, const Config* config) {
  if (out == nullptr) return refuse(nccl_abi::kInvalidArgument, "comm is null");
  *out = nullptr;
  RETURN_IF_REFUSED(check_config(config));
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return refuse(nccl_abi::kInvalidArgument,
                  "rank is " + std::to_string(rank) + " and nranks is " + std::to_string(nranks));
  }
  const bool blocking = is_blocking(config, nullptr);
  const auto child = Handle::create(current_device(), blocking);
  *out = child->id();
  return make({Point::kInit, nullptr, child, blocking,
               [id, nranks, rank](Handle* made) { return join(*made, id, nranks, rank); }});
}

// One place in a communicator that members of another one make without its help: it may be broken. The leader has the id
// and shows it to the readers in a notice.
struct Place {
  std::string notice;
  std::optional<UniqueId> id;
  int readers;
  int nranks;
  int rank;
};

Result join_by_notice(Handle& child, const Place& place) {
  const auto deadline = pycomms::Deadline::after(kMakingTimeout);
  if (place.id.has_value()) {
    const auto shown = show_notice(place.notice, *place.id, place.readers, deadline, child.cancelled());
    if (!shown.is_ok()) return refuse(nccl_abi::kSystemError, shown.message());
    return join(child, *place.id, place.nranks, place.rank);
  }
  auto read = read_notice(place.notice, deadline, child.cancelled());
  if (!read.is_ok()) return refuse(nccl_abi::kSystemError, read.status().message());
  return join(child, read.value(), place.nranks, place.rank);
}

Result make_by_notice(Comm* out, const std::shared_ptr<Handle>& parent, const Config* config, Place place) {
  const bool blocking = is_blocking(config, parent.get());
  const auto child = Handle::create(parent->device(), blocking);
  *out = child->id();
  return make({Point::kSplit, parent, child, blocking,
               [place = std::move(place)](Handle* made) { return join_by_notice(*made, place); }});
}

Result split(Handle* child, const std::shared_ptr<Handle>& parent, int color, int key, const std::string& name) {
  if (child != nullptr) child->rename(name);
  Config config = nonblocking();
  InnerComm inner = nullptr;
  const Result begun = inner_ncclCommSplit(parent->inner(), color, key, &inner, &config);
  if (inner == nullptr) return told(begun);
  child->adopt(inner);
  return child->await_inner();
}

}  // namespace
}  // namespace nccl_emulator

using namespace nccl_emulator;
using nccl_abi::kInvalidArgument;
using nccl_abi::kInvalidUsage;
using nccl_abi::kSuccess;

NCCL_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  NCCL_COUNT_CALL();
  return told(inner_ncclGetUniqueId(id));
}

NCCL_EXPORT Result ncclCommInitRankConfig(Comm* comm, int nranks, UniqueId id, int rank, Config* config) {
  NCCL_COUNT_CALL();
  return make_from_id(comm, id, nranks, rank, config);
}

NCCL_EXPORT Result ncclCommInitRank(Comm* comm, int nranks, UniqueId id, int rank) {
  NCCL_COUNT_CALL();
  return make_from_id(comm, id, nranks, rank, nullptr);
}

// More ids than one only make NCCL's start faster.
NCCL_EXPORT Result ncclCommInitRankScalable(Comm* comm, int nranks, int rank, int nids, UniqueId* ids, Config* config) {
  NCCL_COUNT_CALL();
  if (ids == nullptr || nids < 1 || nids > nranks) {
    return refuse(kInvalidArgument, "commIds is null, or nId is not between 1 and nranks");
  }
  return make_from_id(comm, ids[0], nranks, rank, config);
}

NCCL_EXPORT Result ncclCommInitAll(Comm* comms, int ndevices, const int* devices) {
  NCCL_COUNT_CALL();
  if (comms == nullptr || ndevices < 1) return refuse(kInvalidArgument, "comm is null, or ndev is less than 1");
  UniqueId id;
  RETURN_IF_REFUSED(told(inner_ncclGetUniqueId(&id)));
  start_group();
  Result first = kSuccess;
  for (int rank = 0; rank < ndevices && first == kSuccess; ++rank) {
    const DeviceGuard device(devices != nullptr ? devices[rank] : rank);
    first = make_from_id(&comms[rank], id, ndevices, rank, nullptr);
  }
  const Result made = end_group();
  return first != kSuccess ? first : made;
}

NCCL_EXPORT Result ncclCommSplit(Comm comm, int color, int key, Comm* newcomm, Config* config) {
  NCCL_COUNT_CALL();
  if (newcomm == nullptr) return refuse(kInvalidArgument, "newcomm is null");
  *newcomm = nullptr;
  NCCL_FIND(parent, comm);
  RETURN_IF_REFUSED(check_config(config));
  if (color < 0 && color != nccl_abi::kSplitNoColor) {
    return refuse(kInvalidArgument, "color is " + std::to_string(color) + ", expected >= 0 or NCCL_SPLIT_NOCOLOR");
  }
  RETURN_IF_REFUSED(parent->check_ready(__func__));
  const bool blocking = is_blocking(config, parent.get());
  const std::string name = parent->name_next("split") + ":" + std::to_string(color);
  const auto child = color != nccl_abi::kSplitNoColor ? Handle::create(parent->device(), blocking) : nullptr;
  if (child != nullptr) *newcomm = child->id();
  return make({Point::kSplit, parent, child, blocking,
               [parent, color, key, name](Handle* made) { return split(made, parent, color, key, name); }});
}

NCCL_EXPORT Result ncclCommShrink(Comm comm, int* excluded, int nexcluded, Comm* newcomm, Config* config, int flags) {
  NCCL_COUNT_CALL();
  if (newcomm == nullptr) return refuse(kInvalidArgument, "newcomm is null");
  *newcomm = nullptr;
  NCCL_FIND(parent, comm);
  RETURN_IF_REFUSED(check_config(config));
  const pycomms::GateHolder inside(parent->gate());
  if (!inside || parent->inner() == nullptr) return refuse(kInvalidUsage, "the communicator is not ready");
  if (excluded == nullptr || nexcluded < 1) return refuse(kInvalidArgument, "no rank is excluded");
  if ((flags & ~kShrinkAbort) != 0) return refuse(kInvalidArgument, "unknown shrinkFlags");
  std::vector<int> members(static_cast<size_t>(parent->inner()->impl.nranks()));
  std::iota(members.begin(), members.end(), 0);
  for (int i = 0; i < nexcluded; ++i) std::erase(members, excluded[i]);
  const int old_rank = parent->inner()->impl.rank();
  const auto me = std::find(members.begin(), members.end(), old_rank);
  if (me == members.end()) return refuse(kInvalidArgument, "an excluded rank must not call ncclCommShrink");
  if ((flags & kShrinkAbort) != 0) {
    parent->change(State::kReady, State::kRevoked);
    parent->cancel("ncclCommShrink with NCCL_SHRINK_ABORT");
  } else if (parent->state() != State::kRevoked) {
    RETURN_IF_REFUSED(parent->check_ready(__func__));
  }
  std::string what = "shrink";
  for (const int member : members) what += "," + std::to_string(member);
  Place place{parent->name_next(what), std::nullopt, static_cast<int>(members.size()) - 1,
              static_cast<int>(members.size()), static_cast<int>(me - members.begin())};
  if (place.rank == 0) {
    UniqueId id;
    RETURN_IF_REFUSED(told(inner_ncclGetUniqueId(&id)));
    place.id = id;
  }
  return make_by_notice(newcomm, parent, config, std::move(place));
}

NCCL_EXPORT Result ncclCommGetUniqueId(Comm comm, UniqueId* id) {
  NCCL_COUNT_CALL();
  NCCL_FIND(handle, comm);
  RETURN_IF_REFUSED(handle->check_ready(__func__));
  if (handle->has_grow_id())
    return refuse(kInvalidUsage, "the last unique id of this communicator is not consumed yet");
  RETURN_IF_REFUSED(told(inner_ncclGetUniqueId(id)));
  handle->exchange_grow_id(*id);
  return kSuccess;
}

NCCL_EXPORT Result ncclCommGrow(Comm comm, int nranks, const UniqueId* id, int rank, Comm* newcomm, Config* config) {
  NCCL_COUNT_CALL();
  if (comm == nullptr) {  // a newcomer
    if (id == nullptr) return refuse(kInvalidArgument, "a new rank needs the unique id");
    return make_from_id(newcomm, *id, nranks, rank, config);
  }
  if (newcomm == nullptr) return refuse(kInvalidArgument, "newcomm is null");
  *newcomm = nullptr;
  NCCL_FIND(parent, comm);
  RETURN_IF_REFUSED(check_config(config));
  RETURN_IF_REFUSED(parent->check_ready(__func__));
  const pycomms::GateHolder inside(parent->gate());
  if (!inside) return refuse(kInvalidUsage, "the communicator is closed");
  const int old_ranks = parent->inner()->impl.nranks();
  if (rank != -1) return refuse(kInvalidArgument, "an existing rank keeps its rank: pass -1");
  if (nranks <= old_ranks) return refuse(kInvalidArgument, "nRanks is not more than the communicator has");
  // As NCCL 2.30, which fails in this case: whoever relies on it would find out on real GPUs only.
  if (old_ranks == 1) return refuse(kInvalidUsage, "a communicator of one rank cannot grow");
  Place place{parent->name_next("grow"), std::nullopt, old_ranks - 1, nranks, parent->inner()->impl.rank()};
  if (id != nullptr) {
    const std::optional<UniqueId> made = parent->exchange_grow_id(std::nullopt);
    if (!made.has_value() || name_of(*made) != name_of(*id)) {
      return refuse(kInvalidArgument, "the unique id is not the one that ncclCommGetUniqueId gave");
    }
    place.id = *id;
  }
  return make_by_notice(newcomm, parent, config, std::move(place));
}
