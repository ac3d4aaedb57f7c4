#include "nccl2/core/meetings.h"

#include <vector>

#include "nccl2/core/failure.h"

namespace pycomms {

// --- HandleRendezvous

Error HandleRendezvous::refused(const std::string& what, const std::string& address) const {
  ErrorDetail detail;
  detail.kind = ErrorKind::kUsage;
  detail.op = traits(OpKind::kRegroup).name;
  detail.group = group_;
  detail.rank = members_.rank;
  detail.message = what + " '" + address + "': " + last_engine_text(engine_, nullptr);
  return Error(std::move(detail));
}

Error HandleRendezvous::fetch(int, int, UniqueId* id, Deadline) {
  const std::string& address = members_.members.front().address;
  const EngineResult made =
      engine_.host.meeting_id(address.c_str(), members_.secret().c_str(), members_.agenda().c_str(), id);
  return made == nccl_abi::kSuccess ? Error() : refused("a handle has the address", address);
}

Error HandleRendezvous::check() const {
  for (const RegroupHandle& member : members_.members) {
    UniqueId id;
    if (engine_.host.meeting_id(member.address.c_str(), "", "", &id) == nccl_abi::kSuccess) continue;
    return refused("a handle has the address", member.address);
  }
  return {};
}

Error HandleRendezvous::make(const Engine&, int index, bool, UniqueId* id, Deadline deadline) {
  if (Error error = fetch(index, 0, id, deadline)) return error;
  std::vector<const char*> addresses;
  for (const RegroupHandle& member : members_.members) addresses.push_back(member.address.c_str());
  const EngineResult convened =
      engine_.host.convene(id, addresses.data(), static_cast<int>(addresses.size()), deadline.left());
  if (convened == nccl_abi::kSuccess) return {};
  ErrorDetail detail = refused("cannot convene the members at", addresses.front()).detail();
  detail.kind = ErrorKind::kSystem;
  return Error(std::move(detail));
}

// --- PeerRendezvous

Error PeerRendezvous::tell(const Note& mine, std::vector<Note>* all, Deadline deadline) {
  static_assert(sizeof(Note) <= hostccl::kExchangeBytes);
  all->resize(static_cast<size_t>(peers_->size()));
  return peers_->exchange(OpKind::kConnect, &mine, sizeof(Note), all->data(), deadline);
}

Error PeerRendezvous::make(const Engine& engine, int, bool alone, UniqueId* id, Deadline deadline) {
  Note mine{{}, engine.nccl.get_unique_id(id) == nccl_abi::kSuccess ? 1 : 0};
  mine.id = *id;
  const std::string why = mine.has_id != 0 ? "" : last_engine_text(engine, nullptr);
  std::vector<Note> all;
  if (!alone) {
    if (Error error = tell(mine, &all, deadline)) return error;
  }
  if (mine.has_id != 0) return {};
  ErrorDetail detail;
  detail.kind = ErrorKind::kSystem;
  detail.rank = peers_->rank();
  detail.group = peers_->group();
  detail.message = "the engine has no unique id to give: " + why;
  return Error(std::move(detail));
}

Error PeerRendezvous::fetch(int, int root, UniqueId* id, Deadline deadline) {
  std::vector<Note> all;
  if (Error error = tell({}, &all, deadline)) return error;
  const Note& note = all[static_cast<size_t>(root)];
  *id = note.id;
  if (note.has_id != 0) return {};
  ErrorDetail detail;
  detail.kind = ErrorKind::kSystem;
  detail.rank = peers_->rank();
  detail.group = peers_->group();
  detail.ranks = {root};
  detail.message = "rank " + std::to_string(root) + " has no unique id of the engine to give";
  return Error(std::move(detail));
}

}  // namespace pycomms
