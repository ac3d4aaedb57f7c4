// A connection whose other side has proved who it is, before it has been told whether it is wanted.
// Belongs to whoever holds it; dropping it closes the connection without a word.
#pragma once

#include <utility>

#include "base/status.h"
#include "hostccl/net/hello.h"
#include "hostccl/net/socket.h"

namespace hostccl::net {

class Arrival {
 public:
  Arrival(Descriptor socket, const Address& from, const Bytes16& key, const Greeting& greeting, const Hello& hello)
      : socket_(std::move(socket)), from_(from), key_(key), greeting_(greeting), hello_(hello) {}

  int rank() const { return hello_.from; }
  const Address& from() const { return from_; }

  pycomms::Result<Descriptor> accept() {
    if (!answer(Verdict::kAccepted)) {
      return pycomms::Status::system("answering rank " + std::to_string(rank()) + " at " + from_.to_text());
    }
    return std::move(socket_);
  }
  void refuse(Verdict verdict) {
    static_cast<void>(answer(verdict));  // who does not hear it finds the connection closed
    socket_.reset();
  }

 private:
  // Nothing but the greeting was sent before, so the socket's buffer has room.
  bool answer(Verdict verdict) {
    const Answer answer = make_answer(key_, greeting_, hello_, verdict);
    return send_some(socket_, std::as_bytes(std::span(&answer, 1))) == static_cast<ssize_t>(sizeof(answer));
  }

  Descriptor socket_;
  Address from_;
  Bytes16 key_;
  Greeting greeting_;
  Hello hello_;
};

}  // namespace hostccl::net
