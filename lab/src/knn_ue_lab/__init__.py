"""What only comparisons need: methods that train their own model, rivals, detectors of out-of-domain inputs."""
