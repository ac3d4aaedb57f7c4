#include "hostccl/batch.h"

#include <algorithm>

#include "hostccl/scalar.h"

namespace hostccl {

void Batch::add(Communicator& comm, const Collective& op) {
  collectives_.push_back({&comm, QueuedCollective(op, comm.nranks()), comm.timeout_ns()});
}

void Batch::add(Communicator& comm, const P2pRequest& request) { requests_.push_back({&comm, request}); }

Result Batch::run(bool interruptible) {
  Result first = nccl_abi::kSuccess;
  auto keep = [&first](Result result) {
    if (first == nccl_abi::kSuccess) first = result;
  };
  std::vector<P2pEnding> endings(requests_.size());
  post(endings);
  for (const IssuedCollective& issued : collectives_) {
    Collective op = issued.queued.op();
    if (op.factor_at != nullptr) op.factor = read_scalar(op.factor_at, op.type);
    keep(issued.comm->run(op, issued.timeout_ns, interruptible));
  }
  for (size_t i = 0; i < requests_.size(); ++i) {
    const IssuedRequest& issued = requests_[i];
    keep(issued.comm->wait_for(endings[i].has_come, issued.request, pycomms::kForever, interruptible));
    keep(endings[i].result);
  }
  return first;
}

void Batch::post(std::vector<P2pEnding>& endings) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    P2pRequest& request = requests_[i].request;
    request.done = P2pEnding::come;
    request.arg = &endings[i];
    if (const Result posted = requests_[i].comm->post(request); posted != nccl_abi::kSuccess) {
      P2pEnding::come(&endings[i], posted);
    }
  }
}

std::vector<Communicator*> Batch::communicators() const {
  std::vector<Communicator*> all;
  auto know = [&all](Communicator* comm) {
    if (std::find(all.begin(), all.end(), comm) == all.end()) all.push_back(comm);
  };
  for (const IssuedCollective& issued : collectives_) know(issued.comm);
  for (const IssuedRequest& issued : requests_) know(issued.comm);
  return all;
}

std::string Batch::describe() const {
  if (collectives_.empty()) return requests_.front().request.is_send ? "send" : "recv";
  const IssuedCollective& issued = collectives_.front();
  return hostccl::describe(make_header(issued.queued.op(), issued.comm->nranks()));
}

void Batch::relocate(void* (*to)(const void*)) {
  for (IssuedCollective& issued : collectives_) issued.queued.relocate(to);
  for (IssuedRequest& issued : requests_) {
    P2pRequest& request = issued.request;
    if (request.data != nullptr) request.data = static_cast<std::byte*>(to(request.data));
  }
}

}  // namespace hostccl
