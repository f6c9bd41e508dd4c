"""Checks a manifest against the schemas of Kubernetes, unknown fields included, and prints it as JSON.

    check_kubernetes.py MANIFEST.yaml
"""

import json
import sys

import kubernetes_validate
import yaml

# Indexed Jobs have backoffLimitPerIndex by default since 1.29.
VERSIONS = ["1.29", "1.32", kubernetes_validate.latest_version()]

with open(sys.argv[1], encoding="utf-8") as file:
    manifest = yaml.safe_load(file)
for version in VERSIONS:
    kubernetes_validate.validate(manifest, version, strict=True)
print(json.dumps(manifest))
