#include "graph.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "handles.h"
#include "stream.h"

namespace cuemu {

void UserObject::release(unsigned count) {
  if (references_.fetch_sub(count) != count) return;
  const auto self = handles().user_objects.remove(handle);
  destroy_(arg_);
}

bool Graph::contains(const Node* node) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& mine) { return mine.get() == node; });
}

std::vector<const Node*> Graph::leaves() const {
  std::set<const Node*> inner;
  for (const auto& node : nodes_) inner.insert(node->dependencies.begin(), node->dependencies.end());
  std::vector<const Node*> result;
  for (const auto& node : nodes_) {
    if (!inner.contains(node.get())) result.push_back(node.get());
  }
  return result;
}

bool Graph::drop(const UserObject* object, unsigned count) {
  const auto found = std::find_if(objects_.begin(), objects_.end(), [&](const UserObjectHold& hold) {
    return hold.object() == object && hold.count() == count;
  });
  if (found == objects_.end()) return false;
  std::vector<UserObjectHold> rest;
  for (auto hold = objects_.begin(); hold != objects_.end(); ++hold) {
    if (hold != found) rest.push_back(std::move(*hold));
  }
  objects_.swap(rest);  // the one left behind in `rest` is released here
  return true;
}

GraphExec::GraphExec(const Graph& graph) {
  auto body = std::make_shared<Body>();
  for (const auto& node : graph.nodes()) body->ops.push_back(node->op);
  for (const auto& hold : graph.objects()) body->objects.push_back(hold.again());
  body_ = std::move(body);
}

Op GraphExec::launch() {
  std::vector<std::function<void()>> external(body_->ops.size());
  for (size_t i = 0; i < external.size(); ++i) {
    if (body_->ops[i].at_launch) external[i] = body_->ops[i].at_launch();
  }
  return {
      .what = "graph launch", .type = cuda_abi::kChildGraphNode, .run = [body = body_, external = std::move(external)] {
        for (size_t i = 0; i < external.size(); ++i) {
          if (external[i]) {
            external[i]();
          } else if (body->ops[i].run) {
            Stream::run_work(body->ops[i]);
          }
        }
      }};
}

}  // namespace cuemu
