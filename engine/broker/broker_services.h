// What handlers work with; built once, passed to each.
//
// Threads: immutable; every service is safe from any thread.
#ifndef GYRE_ENGINE_BROKER_BROKER_SERVICES_H_
#define GYRE_ENGINE_BROKER_BROKER_SERVICES_H_

namespace gyre {

class Clock;
class MetadataCache;
class MetadataController;
class ReplicaManager;
struct BrokerConfig;
struct BrokerMetrics;

struct BrokerServices {
  const BrokerConfig& config;
  const Clock& clock;
  MetadataCache& metadata;
  ReplicaManager& replicas;
  BrokerMetrics& metrics;
  MetadataController* controller;  // never null while requests are served
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_BROKER_SERVICES_H_
