;; agent-shell, in init.el
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '%(key)s
    :mode-line-name %(name)s
    :buffer-name %(name)s
    :shell-prompt "forge> "
    :shell-prompt-regexp "forge> "
    :client-maker
    (lambda (buffer)
      (acp-make-client
       :command %(program)s
       :command-params '(%(arguments)s)
       :context-buffer buffer)))))
