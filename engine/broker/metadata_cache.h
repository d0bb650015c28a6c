// The image that requests read, swapped whole when the metadata log moves on.
// For requests about the cluster; the produce and fetch paths find their
// partition in ReplicaManager's table and never touch the image.
//
// Threads: any.
// Owns: a reference to the current image; readers keep theirs as long as they
// like.
#ifndef GYRE_ENGINE_BROKER_METADATA_CACHE_H_
#define GYRE_ENGINE_BROKER_METADATA_CACHE_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/broker/metadata_image.h"
#include "engine/concurrent/mutex.h"

namespace gyre {

class MetadataCache {
 public:
  MetadataCache() : image_(std::make_shared<const MetadataImage>()) {}

  // Never null.
  std::shared_ptr<const MetadataImage> Current() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    return image_;
  }

  void Publish(std::shared_ptr<const MetadataImage> image) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    image_.swap(image);
    // The old image, if this was its last reference, is freed after the lock.
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const MetadataImage> image_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_CACHE_H_
