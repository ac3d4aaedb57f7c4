#include "nccl2/core/meetings.h"

#include <vector>

#include "nccl2/core/failure.h"

namespace pycomms {

// --- HandleRendezvous

Error HandleRendezvous::error(ErrorKind kind, const std::string& what) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.op = traits(OpKind::kRegroup).name;
  detail.group = group_;
  detail.rank = members_.rank;
  detail.message = "new rank " + std::to_string(members_.rank) + " of group " + group_ + ": " + detail.op + ": " +
                   what + ": " + last_engine_text(engine_, nullptr);
  return Error(std::move(detail));
}

Error HandleRendezvous::refused(const std::string& address) const {
  return error(ErrorKind::kUsage, "a handle has the address '" + address + "'");
}

Error HandleRendezvous::fetch(int, int, UniqueId* id, Deadline) {
  const std::string& address = members_.members.front().address;
  const EngineResult made =
      engine_.host.meeting_id(address.c_str(), members_.secret().c_str(), members_.agenda().c_str(), id);
  return made == nccl_abi::kSuccess ? Error() : refused(address);
}

Error HandleRendezvous::check() const {
  for (const RegroupHandle& member : members_.members) {
    UniqueId id;
    if (engine_.host.meeting_id(member.address.c_str(), "", "", &id) == nccl_abi::kSuccess) continue;
    return refused(member.address);
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
  return error(ErrorKind::kSystem, "cannot convene the members");
}

// --- PeerRendezvous

Error PeerRendezvous::tell(const Note& mine, std::vector<Note>* all, Deadline deadline) {
  static_assert(sizeof(Note) <= hostccl::kExchangeBytes);
  all->resize(static_cast<size_t>(peers_->size()));
  return peers_->exchange(OpKind::kConnect, &mine, sizeof(Note), all->data(), deadline);
}

Error PeerRendezvous::no_id(int root, const std::string& why) const {
  ErrorDetail detail;
  detail.kind = ErrorKind::kSystem;
  detail.op = traits(OpKind::kConnect).name;
  detail.group = peers_->group();
  detail.rank = peers_->rank();
  detail.ranks = {root};
  detail.message = "rank " + std::to_string(detail.rank) + " of group " + detail.group + ": " + detail.op + ": rank " +
                   std::to_string(root) + " has no unique id of the engine to give" + (why.empty() ? "" : ": " + why);
  return Error(std::move(detail));
}

Error PeerRendezvous::make(const Engine& engine, int, bool alone, UniqueId* id, Deadline deadline) {
  const bool has_id = engine.nccl.get_unique_id(id) == nccl_abi::kSuccess;
  const Error none = has_id ? Error() : no_id(peers_->rank(), last_engine_text(engine, nullptr));
  std::vector<Note> all;
  if (!alone) {
    if (Error error = tell({*id, has_id ? 1 : 0}, &all, deadline)) return error;
  }
  return none;
}

Error PeerRendezvous::fetch(int, int root, UniqueId* id, Deadline deadline) {
  std::vector<Note> all;
  if (Error error = tell({}, &all, deadline)) return error;
  const Note& note = all[static_cast<size_t>(root)];
  *id = note.id;
  return note.has_id != 0 ? Error() : no_id(root, "");
}

}  // namespace pycomms
