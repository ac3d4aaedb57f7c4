// A graph: pieces of work with their dependencies, the user objects it keeps alive, and what it becomes when it is
// instantiated. A launch runs the nodes one after the other in the order of capture, which is one of the orders that the
// dependencies allow.
//
// Threads: as in CUDA, a graph is used by one thread at a time; a graph under capture is guarded by submission_mutex().
// Must not know: streams, capture.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "op.h"

namespace cuemu {

struct Node {
  Op op;
  std::vector<Node*> dependencies;
};

// cudaUserObject_t: a destructor that runs when the last of the counted references is given back.
class UserObject {
 public:
  UserObject(cuda_abi::HostFn destroy, void* arg, unsigned references)
      : destroy_(destroy), arg_(arg), references_(references) {}
  // Set once, before anyone else can see the object; the last release ends the handle.
  cuda_abi::UserObjectHandle handle = nullptr;
  void retain(unsigned count) { references_.fetch_add(count); }
  void release(unsigned count);

 private:
  const cuda_abi::HostFn destroy_;
  void* const arg_;
  std::atomic<unsigned> references_;
};

// References of one graph to an object.
class UserObjectHold {
 public:
  UserObjectHold(std::shared_ptr<UserObject> object, unsigned count) : object_(std::move(object)), count_(count) {}
  UserObjectHold(UserObjectHold&&) = default;
  UserObjectHold& operator=(UserObjectHold&&) = delete;
  ~UserObjectHold() {
    if (object_) object_->release(count_);
  }
  UserObjectHold again() const {
    object_->retain(count_);
    return {object_, count_};
  }
  const UserObject* object() const { return object_.get(); }
  unsigned count() const { return count_; }

 private:
  std::shared_ptr<UserObject> object_;
  unsigned count_;
};

class Graph {
 public:
  Node* add(Op op, std::vector<Node*> dependencies) {
    nodes_.push_back(std::make_unique<Node>(std::move(op), std::move(dependencies)));
    return nodes_.back().get();
  }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  bool contains(const Node* node) const;
  // Nodes that no other depends on.
  std::vector<const Node*> leaves() const;

  void hold(std::shared_ptr<UserObject> object, unsigned count) { objects_.emplace_back(std::move(object), count); }
  bool drop(const UserObject* object, unsigned count);  // false: it does not hold that many
  const std::vector<UserObjectHold>& objects() const { return objects_; }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<UserObjectHold> objects_;
};

// cudaGraphExec_t. Launches share the body, so it may be destroyed while one runs.
class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);
  // One launch, as a piece of work. Needs submission_mutex(): external events are looked up now.
  Op launch();
  Point last_launch;  // guarded by submission_mutex(): launches of one exec do not overlap

 private:
  struct Body {
    std::vector<Op> ops;
    std::vector<UserObjectHold> objects;
  };
  std::shared_ptr<const Body> body_;
};

}  // namespace cuemu
