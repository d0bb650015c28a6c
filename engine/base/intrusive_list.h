// A doubly linked list whose links are in the elements: no allocation, and an
// element leaves in O(1) knowing only itself. An element can be in as many
// lists at once as it has nodes with different tags:
//
//   struct Waiter : IntrusiveListNode<> { … };
//   IntrusiveList<Waiter> waiters;
//
// Threads: one at a time (whoever guards the list).
// Owns: nothing. An element must leave its list before it dies; a list must be
// empty before it dies.
#ifndef GYRE_ENGINE_BASE_INTRUSIVE_LIST_H_
#define GYRE_ENGINE_BASE_INTRUSIVE_LIST_H_

#include <cassert>
#include <cstddef>

namespace gyre {

template <typename T, typename Tag>
class IntrusiveList;

template <typename Tag = void>
class IntrusiveListNode {
 public:
  IntrusiveListNode() = default;
  IntrusiveListNode(const IntrusiveListNode&) = delete;
  IntrusiveListNode& operator=(const IntrusiveListNode&) = delete;
  ~IntrusiveListNode() { assert(!linked()); }

  bool linked() const { return next_ != nullptr; }
  // Leaves the list it is in; nothing happens when it is in none.
  void Unlink() {
    if (!linked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = nullptr;
    previous_ = nullptr;
  }

 private:
  template <typename T, typename U>
  friend class IntrusiveList;

  IntrusiveListNode* next_ = nullptr;
  IntrusiveListNode* previous_ = nullptr;
};

template <typename T, typename Tag = void>
class IntrusiveList {
 public:
  using Node = IntrusiveListNode<Tag>;

  IntrusiveList() { Clear(); }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    assert(empty());
    Clear();
    head_.next_ = nullptr;
  }

  bool empty() const { return head_.next_ == &head_; }
  // Null when empty.
  T* front() { return empty() ? nullptr : Element(head_.next_); }
  T* back() { return empty() ? nullptr : Element(head_.previous_); }
  // The neighbour; null at the end.
  T* Next(T* element) {
    Node* next = static_cast<Node*>(element)->next_;
    return next == &head_ ? nullptr : Element(next);
  }

  // The element is in no list with this tag.
  void PushBack(T* element) { InsertBefore(&head_, element); }
  void PushFront(T* element) { InsertBefore(head_.next_, element); }
  // Null when empty.
  T* PopFront() {
    T* element = front();
    if (element != nullptr) static_cast<Node*>(element)->Unlink();
    return element;
  }
  // Moves all of `other` behind the last element, in O(1).
  void TakeAll(IntrusiveList* other) {
    if (other->empty()) return;
    Node* first = other->head_.next_;
    Node* last = other->head_.previous_;
    other->Clear();
    first->previous_ = head_.previous_;
    head_.previous_->next_ = first;
    last->next_ = &head_;
    head_.previous_ = last;
  }
  // O(n): for tests and gauges.
  size_t CountSlow() const {
    size_t count = 0;
    for (const Node* node = head_.next_; node != &head_; node = node->next_) ++count;
    return count;
  }

 private:
  static T* Element(Node* node) { return static_cast<T*>(node); }
  void Clear() { head_.next_ = head_.previous_ = &head_; }
  void InsertBefore(Node* position, T* element) {
    Node* node = element;
    assert(!node->linked());
    node->next_ = position;
    node->previous_ = position->previous_;
    position->previous_->next_ = node;
    position->previous_ = node;
  }

  Node head_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_INTRUSIVE_LIST_H_
