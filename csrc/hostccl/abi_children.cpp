// NCCL's functions that make a communicator of another one: split, shrink, grow; and revoke, which goes before.

#include <algorithm>
#include <string>
#include <vector>

#include "hostccl/abi.h"
#include "hostccl/bootstrap.h"
#include "hostccl/nccl_abi_newer.h"
#include "hostccl/report.h"

namespace hostccl {
namespace {

using nccl_abi::Config;

// Asks all members of the parent, on the calling thread. `all`: what they bring, by rank.
template <typename Brought>
Result ask_all(Comm* comm, const char* op, RollCallKind kind, const Brought& mine, std::vector<Brought>& all) {
  const RollCallResult call = comm->impl.roll_call(kind, to_report(mine), init_timeout_ns());
  if (call.result == nccl_abi::kTimeout && !call.missing.empty()) {
    last_failure() = make_failure(FailureKind::kTimeout, comm->impl.rank(), "");
    std::string text = std::string(op) + ": these ranks of the parent did not take part in time:";
    for (const int rank : call.missing) {
      add_rank(last_failure(), rank);
      text += " " + std::to_string(rank);
    }
    set_text(last_failure(), text + "; the parent is unharmed");
    return call.result;
  }
  if (call.result != nccl_abi::kSuccess) return done(comm, call.result);
  all.clear();
  for (const Report& report : call.reports) all.push_back(from_report<Brought>(report));
  return nccl_abi::kSuccess;
}

// What a member of a split, or of a group that grows, brings.
struct SplitReport {
  int32_t color;
  int32_t key;
  UniqueId id;
  int32_t has_id;
};

// Only joining the new communicator is in the background.
Result begin(const UniqueId& id, int rank, int nranks, const Communicator* parent, CommHandle* made,
             const Config* config) {
  *made = new Comm(rank, nranks);
  if (parent != nullptr) (*made)->impl.set_timeout_ns(parent->timeout_ns());
  (*made)->impl.start_join(id, init_timeout_ns());
  return finish_init(*made, config);
}

// Those who stay, in order; empty: an argument is wrong.
std::vector<int> without(const std::vector<int>& excluded, int nranks) {
  std::vector<int> members;
  for (int rank = 0; rank < nranks; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) members.push_back(rank);
  }
  const bool is_each_a_member = members.size() + excluded.size() == static_cast<size_t>(nranks);
  return is_each_a_member ? members : std::vector<int>();
}

}  // namespace
}  // namespace hostccl

namespace nccl_abi {

PYCOMMS_EXPORT Result ncclCommSplit(CommHandle comm, int color, int key, CommHandle* newcomm, Config* config) {
  using namespace hostccl;
  if (newcomm == nullptr) return refuse("newcomm is null");
  *newcomm = nullptr;
  RETURN_IF_REFUSED(check_ready(comm));
  RETURN_IF_REFUSED(check_config(config));
  if (color < 0 && color != kSplitNoColor) return refuse("color is " + std::to_string(color) + ", expected >= 0 or -1");
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", kInvalidUsage);

  std::vector<SplitReport> all;
  const auto kind = RollCallKind::kSplit;
  RETURN_IF_REFUSED(ask_all(comm, "split", kind, SplitReport{color, key, {}, 0}, all));
  std::vector<int> members;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (color != kSplitNoColor && all[rank].color == color) members.push_back(static_cast<int>(rank));
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key; });
  SplitReport second{color, key, {}, 0};
  if (!members.empty() && members.front() == comm->impl.rank()) {
    if (auto id = create_unique_id(); id.is_ok()) {
      second.id = id.value();
      second.has_id = 1;
    }
  }
  RETURN_IF_REFUSED(ask_all(comm, "split", kind, second, all));
  if (members.empty()) return kSuccess;
  const SplitReport& leader = all[static_cast<size_t>(members.front())];
  if (leader.has_id == 0) {
    return refuse("split: rank " + std::to_string(members.front()) + " of the parent could not open a socket",
                  kSystemError);
  }
  const auto me = std::find(members.begin(), members.end(), comm->impl.rank());
  return begin(leader.id, static_cast<int>(me - members.begin()), static_cast<int>(members.size()), &comm->impl,
               newcomm, config);
}

// What is in flight ends on all members, and nothing else runs on it: it can be shrunk with kShrinkAbort, and destroyed.
PYCOMMS_EXPORT Result ncclCommRevoke(CommHandle comm, int flags) {
  using namespace hostccl;
  if (comm == nullptr) return refuse("the communicator is null");
  if (flags != kRevokeDefault) return refuse("revokeFlags is " + std::to_string(flags) + ", expected 0");
  comm->impl.cancel("ncclCommRevoke");
  return kSuccess;
}

// The members that stay meet where the first of them is; nothing is asked of the parent, which may be broken.
PYCOMMS_EXPORT Result ncclCommShrink(CommHandle comm, int* excluded, int excluded_count, CommHandle* newcomm,
                                     Config* config, int flags) {
  using namespace hostccl;
  if (newcomm == nullptr) return refuse("newcomm is null");
  *newcomm = nullptr;
  if (comm == nullptr) return refuse("the communicator is null");
  if (excluded == nullptr || excluded_count < 1) return refuse("the list of excluded ranks is empty");
  if (flags != kShrinkDefault && flags != kShrinkAbort) {
    return refuse("shrinkFlags is " + std::to_string(flags) + ", expected 0 or 1");
  }
  RETURN_IF_REFUSED(check_config(config));
  if (flags == kShrinkDefault) RETURN_IF_REFUSED(check_ready(comm));
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside || comm->impl.is_foreign()) return refuse("the communicator is closed", kInvalidUsage);
  if (!comm->impl.is_assembled()) return refuse("the communicator has never been complete", kInvalidUsage);

  const std::vector<int> members = without({excluded, excluded + excluded_count}, comm->impl.nranks());
  const auto me = std::find(members.begin(), members.end(), comm->impl.rank());
  if (members.empty()) return refuse("the excluded ranks are not different members of the communicator");
  if (me == members.end()) return refuse("an excluded rank must not call ncclCommShrink");
  if (flags == kShrinkAbort) comm->impl.cancel("ncclCommShrink with NCCL_SHRINK_ABORT");
  auto id = comm->impl.call_together(members, "shrink", pycomms::Deadline::after(init_timeout_ns()));
  if (!id.is_ok()) return refuse(id.status().message(), kSystemError);
  return begin(id.value(), static_cast<int>(me - members.begin()), static_cast<int>(members.size()), &comm->impl,
               newcomm, config);
}

// Of a communicator that grows, on one of its members: the newcomers join with it.
PYCOMMS_EXPORT Result ncclCommGetUniqueId(CommHandle comm, UniqueId* id) {
  RETURN_IF_REFUSED(hostccl::check_ready(comm));
  return ncclGetUniqueId(id);
}

// Members bring the communicator, newcomers a rank behind theirs; one member has the id for all.
PYCOMMS_EXPORT Result ncclCommGrow(CommHandle comm, int nranks, const UniqueId* id, int rank, CommHandle* newcomm,
                                   Config* config) {
  using namespace hostccl;
  if (newcomm == nullptr) return refuse("newcomm is null");
  *newcomm = nullptr;
  RETURN_IF_REFUSED(check_config(config));
  if (comm == nullptr) {
    if (id == nullptr) return refuse("a newcomer needs the unique id");
    if (rank < 0 || rank >= nranks) return refuse("rank is " + std::to_string(rank) + ", expected 0 to nranks - 1");
    return begin(*id, rank, nranks, nullptr, newcomm, config);
  }
  RETURN_IF_REFUSED(check_ready(comm));
  if (rank != -1) return refuse("rank is " + std::to_string(rank) + ", expected -1: a member keeps its rank");
  if (nranks <= comm->impl.nranks()) {
    return refuse("nranks is " + std::to_string(nranks) + ", expected more than " +
                  std::to_string(comm->impl.nranks()));
  }
  pycomms::GateHolder inside(comm->impl.gate());
  if (!inside) return refuse("the communicator is closed", kInvalidUsage);
  SplitReport mine{0, nranks, id == nullptr ? UniqueId{} : *id, id == nullptr ? 0 : 1};
  std::vector<SplitReport> all;
  RETURN_IF_REFUSED(ask_all(comm, "grow", RollCallKind::kGrow, mine, all));
  const auto root = std::find_if(all.begin(), all.end(), [](const SplitReport& one) { return one.has_id != 0; });
  if (root == all.end()) return refuse("no member brought the unique id", kInvalidUsage);
  for (const SplitReport& one : all) {
    if (one.key != nranks) return refuse("the members do not grow to the same number of ranks", kInvalidUsage);
  }
  return begin(root->id, comm->impl.rank(), nranks, &comm->impl, newcomm, config);
}

}  // namespace nccl_abi
