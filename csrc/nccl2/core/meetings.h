// Ways to find each other that need no store: by the handles of a regroup, and by way of another communicator.
// Each by the thread that connects a communicator. Must not know: how the engine does it.
#pragma once

#include <memory>

#include "nccl2/core/communicator.h"
#include "nccl2/core/regroup_handle.h"
#include "nccl2/core/rendezvous.h"

namespace pycomms {

// The members know each other's addresses, and the first of them convenes the others. For the engine of the CPU.
class HandleRendezvous final : public Rendezvous {
 public:
  HandleRendezvous(const Engine& engine, Membership members, std::string group)
      : engine_(engine), members_(std::move(members)), group_(std::move(group)) {}

  Error make(const Engine& engine, int index, bool alone, UniqueId* id, Deadline deadline) override;
  Error fetch(int index, int root, UniqueId* id, Deadline deadline) override;
  // Whether all addresses are some of this engine's; the error names the first that is not.
  Error check() const;

 private:
  Error error(ErrorKind kind, const std::string& what) const;
  Error refused(const std::string& address) const;

  const Engine& engine_;
  const Membership members_;
  const std::string group_;
};

// The first member has made the id and tells the others over a communicator of the same members, who all come at the same point
// of their program. One id only.
class PeerRendezvous final : public Rendezvous {
 public:
  explicit PeerRendezvous(std::shared_ptr<Communicator> peers) : peers_(std::move(peers)) {}

  Error make(const Engine& engine, int index, bool alone, UniqueId* id, Deadline deadline) override;
  Error fetch(int index, int root, UniqueId* id, Deadline deadline) override;

 private:
  struct Note {
    UniqueId id;
    int32_t has_id;
  };
  Error tell(const Note& mine, std::vector<Note>* all, Deadline deadline);
  Error no_id(int root, const std::string& why) const;

  const std::shared_ptr<Communicator> peers_;
};

}  // namespace pycomms
